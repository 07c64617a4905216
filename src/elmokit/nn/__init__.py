"""The network: tensors in, tensors out; no files, no text."""

from elmokit.nn.network import BiLMNetwork
from elmokit.nn.scalar_mix import ScalarMix
from elmokit.nn.softmax import LMSoftmax
from elmokit.nn.state import CarriedState, State

__all__ = ["BiLMNetwork", "CarriedState", "LMSoftmax", "ScalarMix", "State"]
