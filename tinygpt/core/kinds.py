"""The models, by the name that `kind` has in a config."""

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.models.model import Model

# sizes, options: the model's settings that mean something to it
Kind = namedtuple("Kind", ("name", "about", "sizes", "options"))

SHARED = ("norm", "norm_place", "activation", "biases", "tied_head", "logit_cap", "ngrams", "ngram_rows", "ngram_width")
KINDS = (
    Kind("gpt", "a transformer", ("layers", "d_model", "heads", "ctx"), SHARED + ("positions", "qk_norm", "kv_heads")),
    Kind("recurrent", "a gated recurrent network", ("layers", "d_model", "ctx"), SHARED),
    Kind("bigram", "a table of which byte follows which", ("ctx",), ()),
)


def kind_of(name: str) -> Kind:
    (kind,) = [kind for kind in KINDS if kind.name == name]
    return kind


def model_of(kind: str) -> "Model":
    """Imported here, because a model's file imports the config, which lists the kinds."""
    from tinygpt.core.models import bigram, gpt, recurrent

    return {"gpt": gpt.MODEL, "recurrent": recurrent.MODEL, "bigram": bigram.MODEL}[kind]
