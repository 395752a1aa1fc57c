def reference(src, cols, rows):
    return [[src[i, j] for i in range(rows)] for j in range(cols)]
