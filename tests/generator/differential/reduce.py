"""Makes a failing program small, piece by piece, while it fails in the same way.

First goes what has nothing to do with the line that differs, as far as names say. Then many changes are tried at once, each in a copy of
the program, all in one batch. Of those that keep the failure, as many as go together are kept.
"""

import re
import time

from families import Program
from model import BOOL, DOUBLE, FAMILIES, FLOAT, INT, INTEGER, RANKS, STRING, VECTOR
from tree import PRIMARY, Either, Node, nodes, replaced, text

AT_ONCE = 24
LITERALS = {BOOL: ("true", 1), INT: ("1", 1), INTEGER: ("int64_t{1}", 1), DOUBLE: ("1.0", 1), FLOAT: ("1.0f", 1)}


def size(program):
    return sum(len(text(spec, False, 0)) for spec in program.specs.values())


def reduced(judge, program, verdict, rounds=60, seconds=600):
    """The smallest program found that fails as `verdict` says, and how it does."""
    wanted = failure(verdict)
    why, end = verdict, time.monotonic() + seconds
    for changes_of in (others, unnamed, others, unnamed):
        for change in changes_of(program, why):
            copy = changed(program, change)
            verdict = judge.judge({0: copy})[0] if copy and size(copy) + drivers_size(copy) < size(program) + drivers_size(program) else None
            if verdict and failure(verdict) == wanted:
                program, why = copy, verdict
                break
    for changes_of in (families, groups, statements, expressions, statements, groups, expressions):
        skipped = 0
        for _ in range(rounds):
            changes = changes_of(program)[skipped : skipped + AT_ONCE]
            if not changes or time.monotonic() > end:
                break
            copies = {index: changed(program, change) for index, change in enumerate(changes)}
            copies = {index: copy for index, copy in copies.items() if copy is not None}
            verdicts = judge.judge(copies)
            good = [index for index in copies if failure(verdicts[index]) == wanted]
            if not good:
                skipped += AT_ONCE
                continue
            program, why = combined(judge, program, [changes[index] for index in good], copies[good[0]], verdicts[good[0]], wanted)
            skipped = max(0, skipped - AT_ONCE // 2)
    return program, why


def drivers_size(program):
    return sum(len(text(driver, False, 0)) for driver in program.drivers.values())


def failure(verdict):
    """What a smaller program must have in common with the original: the kind, and what is said of it without names and values."""
    if verdict.kind == "differs":
        return verdict.kind
    if verdict.kind in ("invalid", "rejected"):
        line = re.search(r"error: (.*)", verdict.detail)
        return verdict.kind, re.sub(r"'[^']*'|\d+", "…", line[1]) if line else ""
    return verdict.kind


def combined(judge, program, changes, first, first_verdict, wanted):
    """The program with all of the changes, or with half of them, and so on; that with the first alone is known to fail."""
    while len(changes) > 1:
        merged = {}
        for change in changes:
            merged.update(change)
        together = changed(program, merged)
        verdict = judge.judge({0: together})[0] if together else None
        if verdict and failure(verdict) == wanted:
            return together, verdict
        changes = changes[: len(changes) // 2]
    return first, first_verdict


def changed(program, change):
    """The program with other parts for some nodes, by id; without families whose specs are gone."""
    specs = {index: replaced(spec, change) for index, spec in program.specs.items() if change.get(id(spec)) != []}
    drivers = {index: replaced(driver, change) for index, driver in program.drivers.items() if index in specs}
    if 0 not in specs or len(specs) < 1:
        return None
    return Program(specs, drivers, replaced(program.tail, change))


# ---- Changes: each maps ids of nodes to the parts that take their place. ----


def all_nodes(program):
    return list(nodes(program.parts()))


def others(program, verdict):
    """What drivers do with other objects than the one whose line differs, and other families' drivers: all of it, or less."""
    found = re.match(r"(\w+): .*?`((\w+)[^`]*?) \S+( \([^)]*\))?`", verdict.detail)
    if not found or found[1] not in FAMILIES:
        return []
    level, line, label = FAMILIES.index(found[1]), found[2], found[3]
    if level not in program.drivers:
        return []
    tops = [node for node in program.drivers[level].parts if isinstance(node, Node)]
    far = {id(driver): [] for index, driver in program.drivers.items() if index != level}
    elsewhere = {id(node): [] for node in tops if f'"{label} ' not in text(node, False, 0)}
    beside = {id(inner): [] for top in tops if id(top) not in elsewhere
              for inner in nodes(top) if inner is not top and inner.kind == "optional" and f'"{line}"' not in text(inner, False, 0)
              and "config" not in text(inner, False, 0)}
    later = {id(node): [] for node in all_nodes(program) if node.group in [f"family {index}" for index in program.specs if index > level]}
    return [{**far, **elsewhere, **beside, **later}, {**far, **elsewhere, **later}, {**far, **elsewhere}, {**far, **beside}, far]


def texts(parts):
    """The strings among parts, and those of both versions where they differ."""
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Either):
            yield from texts(part.spec + part.oracle)


def unnamed(program, verdict):
    """The members, functions and constants that nothing names which a driver or constructor names, or what those name, and so on."""
    by_group = {}
    for node in all_nodes(program):
        if node.kind == "optional" and node.group and not node.group.startswith("family"):
            by_group.setdefault(node.group, []).append(node)
    inside = {id(one) for parts in by_group.values() for node in parts for one in nodes(node)}
    split_words = {group: set(re.findall(r"\w+", " ".join(text(node, False, 0) for node in parts))) for group, parts in by_group.items()}
    reached = set()
    for node in all_nodes(program):
        if id(node) not in inside:
            reached.update(word for part in texts(node.parts) for word in re.findall(r"\w+", part))
    left = dict(split_words)
    while found := [group for group in left if reached.intersection(re.findall(r"\w+", group.split(" ", 1)[1]))]:
        for group in found:
            reached |= left.pop(group)
    return [{id(node): [] for group in left for node in by_group[group]}] if left else []


def families(program):
    """Each family, the last ones first."""
    result = []
    for index in sorted(program.specs, reverse=True):
        if index:
            result.append({id(node): [] for node in all_nodes(program) if node.group == f"family {index}"})
    return result


def groups(program):
    """Each member, function or constant, large ones first."""
    by_group = {}
    for node in all_nodes(program):
        if node.kind == "optional" and node.group and not node.group.startswith("family"):
            by_group.setdefault(node.group, []).append(node)
    parts = sorted(by_group.values(), key=lambda group: -sum(len(text(node, False, 0)) for node in group))
    return [{id(node): [] for node in group} for group in parts] + driver_halves(program)


def driver_halves(program):
    """What drivers do with one object, or one by one."""
    result = []
    for driver in program.drivers.values():
        tops = [node for node in driver.parts if isinstance(node, Node)] if isinstance(driver, Node) else []
        for top in tops:
            result.append({id(top): []})
            inner = [node for node in nodes(top) if node is not top and node.kind == "optional"]
            if len(inner) > 3:
                for half in (inner[: len(inner) // 2], inner[len(inner) // 2 :]):
                    result.append({id(node): [] for node in half})
    return result


def statements(program):
    """Statements without a group, outer ones first, and blocks that give way to what is in them."""
    result = []
    for node in all_nodes(program):
        if node.kind == "block":
            result.append({id(node): [one for one in node.parts if isinstance(one, Node) and one.kind in ("optional", "block")]})
            result.append({id(node): []})
        elif node.kind == "optional" and not node.group:
            result.append({id(node): []})
    return result


def expressions(program):
    """Expressions that give way to a literal, or to one inside of them."""
    result = []
    for node in all_nodes(program):
        if node.kind != "expression" or len(text(node, False, 0)) < 4:
            continue
        literal = LITERALS.get(node.type)
        if literal and node.low <= literal[1] <= node.high and text(node, False, 0) != literal[0]:
            result.append({id(node): [literal[0]]})
        if node.type == STRING and text(node, False, 0) != 'std::string("a")':
            result.append({id(node): ['std::string("a")']})
        if node.type == VECTOR and node.parts[0] != "std::vector<int64_t>{1, 2}":
            result.append({id(node): ["std::vector<int64_t>{1, 2}"]})
        inner = [one for one in nodes(node) if one is not node and one.kind == "expression" and one.type == node.type]
        for one in inner[:2]:
            fits = node.type not in RANKS or (node.low <= one.low and one.high <= node.high)
            if fits and text(one, False, 0) != text(node, False, 0):
                result.append({id(node): [one if one.level == PRIMARY else Node("fixed", "(", one, ")")]})
    return result
