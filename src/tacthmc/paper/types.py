"""Names for types that several modules of the paper share."""

from typing import TypeAlias

from jaxtyping import Array, Float, Key

PRNGKey: TypeAlias = Key[Array, ""]

Scalar: TypeAlias = Float[Array, ""]

Number: TypeAlias = float | int | Array
"""A Python number, or an array of none or more axes."""
