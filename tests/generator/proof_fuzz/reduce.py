"""Reduces a module: drops lines and blocks as long as the outcome stays the same."""


def blocks(lines):
    """Ranges of lines that may be dropped: entire blocks and single statements, larger ones first."""
    ranges = []
    for i, line in enumerate(lines):
        if line.rstrip().endswith("{") and line.startswith("  "):
            depth = 0
            for j in range(i, len(lines)):
                depth += lines[j].count("{") - lines[j].count("}")
                if depth <= 0:
                    ranges.append((i, j + 1))
                    break
        elif line.startswith("    ") and line.rstrip().endswith(";"):
            ranges.append((i, i + 1))
        elif line.startswith("  ") and line.rstrip().endswith(";") and "(" not in line:
            ranges.append((i, i + 1))
    return sorted(ranges, key=lambda one: one[0] - one[1])


def reduced(text, outcome):
    """Reduces `text` to a minimum with the same outcome."""
    wanted = outcome(text)
    lines = text.splitlines()
    changed = True
    while changed:
        changed = False
        for begin, end in blocks(lines):
            if end > len(lines):
                continue
            shorter = lines[:begin] + lines[end:]
            if outcome("\n".join(shorter) + "\n") == wanted:
                lines, changed = shorter, True
                break
    return "\n".join(lines) + "\n"
