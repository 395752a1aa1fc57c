kernel void count(global int *total)
{
    if (get_local_id(0) == 0)
        *total = *total + 1;
}
