"""Statements that are added to a spec and typed in its port: operations over one dimension of the value at a place."""

# The text in C++, and the same operation in PyTorch.
OPERATIONS = (
    ("{x}.softmax({d})", lambda x, d: x.softmax(d)),
    ("{x} - {x}.mean({d}, true)", lambda x, d: x - x.mean(d, keepdim=True)),
    ("{x}.cumsum({d})", lambda x, d: x.cumsum(d)),
    ("{x} / {x}.amax({d}, true)", lambda x, d: x / x.amax(d, keepdim=True)),
    ("{x}.sum({d}).tanh()", lambda x, d: x.sum(d).tanh()),
    ("{x} + {x}.sum({d}, true)", lambda x, d: x + x.sum(d, keepdim=True)),
)
RANKS_OF_VALUES = {"between layers": 3, "heads": 4, "after layers": 3}


def statements(family, index, per_dimension):
    """By place: each statement's text and operation. Families have different operations, which together are all."""
    chosen = {}
    for at, (place, rank) in enumerate(RANKS_OF_VALUES.items()):
        variable = family.places[place][2]
        for dim in range(rank):
            for i in range(per_dimension):
                text, operation = OPERATIONS[(index * per_dimension + at + dim + i) % len(OPERATIONS)]
                text = text.format(x=variable, d=dim)
                chosen.setdefault(place, {})[text] = lambda x, run=operation, dim=dim: run(x, dim)
    return chosen
