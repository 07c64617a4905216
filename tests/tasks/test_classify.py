import random
from typing import ClassVar

from tasks.contract import TaskContract

SMALL = {
    "hidden_dim": 16,
    "dropout": 0.1,
    "tokens": {"word_dim": 12, "character_filters": 12, "dropout": 0.1, "min_count": 1},
}
LIKED = ["good", "fine", "lovely"]
DISLIKED = ["bad", "poor", "ugly"]
OTHERS = ["a", "film", "it", "is", "the", "plot"]


def texts(number=20):
    """Pairs of a judgement, True or False, and words."""
    generator = random.Random(2)
    for index in range(number):
        words = [generator.choice(OTHERS) for _ in range(generator.randrange(1, 6))]
        judging = generator.choice(LIKED if index % 2 else DISLIKED)
        words.insert(generator.randrange(len(words) + 1), judging)
        yield bool(index % 2), words


def two_texts():
    """The first two with a blank line between them: one that dislikes, one that likes."""
    return "\n\n".join(" ".join(words) for _, words in texts(2)) + "\n"


class TestClassify(TaskContract):
    name = "classify"
    suffix = ".tsv"
    content = "".join(
        f"{'pos' if liked else 'neg'}\t{' '.join(words)}\n" for liked, words in texts()
    )
    text = two_texts()
    model: ClassVar = SMALL

    def check_written(self, written):
        assert written == self.content

    def check_written_from_text(self, written):
        dislike, nothing, like = self.text.splitlines()
        assert written == f"neg\t{dislike}\n\t{nothing}\npos\t{like}\n"
