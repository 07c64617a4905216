"""How a run stands on text that it never learns from."""

import logging
import math
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Standing:
    """What the measurements so far have shown; part of a checkpoint."""

    first: float = math.inf
    """Mean perplexity at the first one: before the first step, if a run starts from a model."""
    previous: float = math.inf
    """At the last one."""
    best: float = math.inf
    """The lowest."""
    waited: int = 0
    """Measurements since the lowest."""

    def add(self, perplexity: float) -> bool:
        """Counts a measurement; returns whether it is the best, and warns if the figure rises."""
        if not math.isfinite(perplexity):
            logger.warning(
                "held-out perplexity is no finite number: steps are much too large; begin another "
                "run with a lower optimizer.learning_rate"
            )
        elif perplexity > self.previous:
            logger.warning(
                "held-out perplexity rises (%.5g after %.5g), whatever the training loss does: "
                "the model begins to learn its text by heart, or steps are too large",
                *(perplexity, self.previous),
            )
        if self.previous == math.inf:
            self.first = perplexity
        self.previous = perplexity
        if perplexity < self.best:
            self.best, self.waited = perplexity, 0
            return True
        self.waited += 1
        return False

    def is_over(self, patience: int | None) -> bool:
        """Tells whether so many measurements in a row were no better than the best."""
        return patience is not None and self.waited >= patience
