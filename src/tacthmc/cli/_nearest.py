"""Errors for mistyped options that suggest the nearest one."""

from typing import Any

from typer.core import TyperGroup

from tacthmc.paper.table1 import command as table1_command


class NearestOption(TyperGroup):
    """Commands whose error for a mistyped option suggests the nearest one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; ``reproduce table1`` is a separate one, with its own options."""
        if args[:2] == table1_command.WORDS:
            args = [table1_command.NAME, *table1_command.spread(args[2:])]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. An error for a mistyped option keeps only the nearest suggestion."""
        from tacthmc._checks import nearest

        try:
            return super().invoke(ctx)
        except Exception as error:
            mistyped = getattr(error, "option_name", None)
            known = getattr(error, "possibilities", None)
            if mistyped and known:
                near = nearest(mistyped, known)
                error.possibilities = [near] if near else known  # pyright: ignore[reportAttributeAccessIssue]
            raise
