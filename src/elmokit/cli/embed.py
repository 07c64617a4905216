"""`elmo embed`: text to a file of vectors."""

from elmokit.embedding.run import embed_file
from elmokit.embedding.settings import EmbedSettings


def run(settings: EmbedSettings) -> None:
    """Embeds a file; the summary is logged."""
    embed_file(settings)
