from checkpoint_samples import checkpoints
from hypothesis import given, settings

from elmokit.checkpoints import layout
from elmokit.nn import BiLMNetwork


@settings(max_examples=50)
@given(checkpoint=checkpoints())
def test_names_and_shapes_are_those_of_the_network(checkpoint):
    state = BiLMNetwork(checkpoint.config).state_dict()
    assert layout.shapes(checkpoint.config) == {name: tuple(t.shape) for name, t in state.items()}
