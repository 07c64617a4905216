"""A model whose matrices multiply in int8, by scales that are fixed when it is made.

Scales that followed each batch would make a sentence's vectors depend on its neighbours. Here they
come from the ranges that a short text gave once in float32.
"""

import hashlib
import logging
import time
from typing import cast

import torch
from torch import Tensor

from elmokit.config import ActivationRanges
from elmokit.embedding.computing import computing
from elmokit.errors import ConfigError
from elmokit.model import BiLM
from elmokit.nn.lstm_steps import Reading
from elmokit.nn.network import BiLMNetwork
from elmokit.nn.products import Activations, Int8Product, MeasuringProduct, int8_problem
from elmokit.nn.projected_lstm import ProjectedLSTM, run_layers

logger = logging.getLogger(__name__)

_TRIALS, _TRIAL_ROWS, _TRIAL_STEPS = 4, 64, 4
"""What is timed to tell whether int8 pays: the best of so many trials."""
_SLOWER = 1.1
"""Times as long from which a user is told; less may be chance."""

_TEXT = """\
The kettle boils , and nobody has found the lid .
When does the last train leave for the coast ?
Mrs. O'Neill paid $ 1,249.50 on 3 May 1987 for two chairs and a lamp .
" It isn't raining any more , " she said ; " let's walk . "
Although the committee had read the report , its members could not agree on what it meant .
RESULTS ( Table 2 ) show a 37 % drop in errors -- see http://example.org/a_b?c=1 .
the quick repair of old bicycles needs patience , oil , a good light and small hands
Stop !
Photosynthesis transforms carbon dioxide into carbohydrates within chloroplasts .
Der alte Fischer verkaufte gestern sein Boot , weil ihm die Kälte zu schaffen machte .
Où est passée la clé que ma grand-mère gardait près de l'évier ?
El niño soñaba con una montaña de azúcar y un río de leche .
Stará paní šla pomalu přes most a počítala lodě .
Старый мельник продал муку и купил новую лошадь .
Ο γέρος ψαράς διόρθωνε τα δίχτυα του στον ήλιο .
باع الصياد العجوز قاربه قبل الشتاء .
הדייג הזקן מכר את הסירה שלו .
बूढ़े मछुआरे ने अपनी नाव बेच दी ।
老 渔夫 在 冬天 以前 卖 了 他 的 船 。
老 漁 夫 在 冬 天 以 前 賣 了 他 的 船 。
年 を 取っ た 漁師 は 冬 の 前 に 船 を 売っ た 。
늙은 어부 는 겨울 전 에 배 를 팔았다 .
ชาวประมง ชรา ขาย เรือ ของ เขา ก่อน ฤดูหนาว
M K T A Y I A K Q R Q I S F V K S H F S R Q L E E R L G L I E V Q A P I L S R V G D G T Q D N L S
xqzv 0 00 000000 ??? !!!! ( ( ( ) ) ) :-) ... ... 👍 ★ ½ A.B.C. aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
"""
"""What ranges are measured on: many scripts, short and long words, figures, signs."""


def quantize(bilm: BiLM) -> None:
    """Lets a model multiply in int8; its parameters stay as they are.

    The ranges are those that came with the model, if they were measured with these weights, else
    those of a built-in text. They are kept in `bilm.activations`, and saved with it.

    Args:
        bilm: A model on the CPU, in float32, of its own (`BiLM.frozen`).

    Raises:
        ConfigError: The model's LSTM is a stacked one, or torch has no such products here.
    """
    if bilm.config.lstm.kind == "stacked":
        raise ConfigError(
            "precision: int8 is made for the paper's LSTM, this model's is stacked; use fp32"
        )
    if problem := int8_problem():
        raise ConfigError(
            f"precision: int8 cannot be used with this processor and torch {torch.__version__} "
            f"({problem}); use fp32"
        )
    found, digest = bilm.activations, _digest(bilm.network)
    if found is None or found.weights != digest:
        found = ActivationRanges(weights=digest, ranges=_measure(bilm))
    bilm.activations = found
    seen = {name: Activations(*numbers) for name, numbers in found.ranges.items()}
    bilm.network.use_products(None)
    in_float32 = _seconds(bilm)
    bilm.network.use_products(lambda name, weight, bias: Int8Product(weight, bias, seen[name]))
    times = _seconds(bilm) / in_float32
    if times > _SLOWER:
        logger.warning(
            "precision: on this processor int8 takes %.1f times as long as fp32 with this model; "
            "fp32 is faster and exact",
            times,
        )


def _seconds(bilm: BiLM) -> float:
    """Returns how long a few steps of a layer take, as the model multiplies now."""
    lstm = bilm.config.lstm
    layer = cast(ProjectedLSTM, bilm.network.forward_lstm[0])
    reading = Reading(
        torch.zeros(_TRIAL_ROWS * _TRIAL_STEPS, lstm.projection_dim),
        (_TRIAL_ROWS,) * _TRIAL_STEPS,
        torch.zeros(_TRIAL_ROWS, lstm.projection_dim),
        torch.zeros(_TRIAL_ROWS, lstm.cell_dim),
    )
    taken = []
    with computing(bilm.device):
        for _ in range(_TRIALS):
            started = time.perf_counter()
            run_layers([layer], [reading])
            taken.append(time.perf_counter() - started)
    return min(taken)


def _measure(bilm: BiLM) -> dict[str, tuple[float, float, float]]:
    """Returns what each matrix is multiplied with while the text runs in float32."""
    products: dict[str, MeasuringProduct] = {}

    def make(name: str, weight: Tensor, bias: Tensor | None) -> MeasuringProduct:
        return products.setdefault(name, MeasuringProduct(weight, bias))

    sentences = [line.split() for line in _TEXT.splitlines()]
    bilm.network.use_products(make)
    with computing(bilm.device):
        batch = bilm.encode(sentences)
        bilm.network.run(bilm.network.encode_types(batch.types), batch)
    return {name: _rounded(product.activations) for name, product in products.items()}


def _rounded(activations: Activations) -> tuple[float, float, float]:
    """Keeps three digits: the last bits differ between processors, and the scales should not."""
    low, high, spread = (float(f"{number:.3g}") for number in activations)
    return low, high, spread


def _digest(network: BiLMNetwork) -> str:
    """Returns a digest of the weights as float16, in which they may have been stored."""
    digest = hashlib.sha256()
    for name, parameter in network.named_parameters():
        digest.update(name.encode())
        digest.update(parameter.detach().half().contiguous().numpy().data)
    return digest.hexdigest()
