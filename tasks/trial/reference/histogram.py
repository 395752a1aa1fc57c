def reference(data, bins_before, n):
    counts = [0] * 256
    for value in data.tolist():
        counts[value] += 1
    return counts
