"""The commands of `malloc-tuner` as one Typer application.

Every command is a function of its name that `subcommand` marks, in a module of its own; a group
is a module with a function `register`.  The modules import at the top only what their options
need; what does the work is imported by the command when it runs, so that ``--help`` answers at
once.
"""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import tuner
from tuner.cli.epilog import add_command, exit_code_table, exit_codes

MODULES = (
    "record",
    "import_",
    "trace",
    "fit",
    "vary",
    "fidelity",
    "emulate",
    "optimize",
    "tune",
    "front",
    "pick",
    "explain",
    "compare",
    "replay",
    "validate",
    "gem5",
    "gem5_inside",
    "report",
    "export",
    "check",
    "link_advice",
    "bench",
    "doctor",
)
"""Modules of `tuner.cli` with a command each, in the order of use."""

COMMANDS = tuple(name.rstrip("_").replace("_", "-") for name in MODULES)
"""Names of the commands and groups, in the order of the help."""

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""A wrong command line, which Typer has no name of its own for."""

_HELP = """\
Find the malloc, and its settings, that use the least memory for the least work.

One command records a program, tunes in emulation, and proves it on the program:

\b
  malloc-tuner optimize -o runs/app -- ./app --its arguments
  malloc-tuner export runs/app -o malloc.env

The same in steps, with every choice left to you:

\b
  malloc-tuner record -o app.trace -- ./app --its arguments
  malloc-tuner tune app.trace --evaluations 300 -o runs/steps
  malloc-tuner validate runs/steps -- ./app --its arguments
  malloc-tuner report runs/steps

`malloc-tuner COMMAND --help` shows examples and the exit codes of a command;
`malloc-tuner doctor` checks this machine.
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"malloc-tuner {tuner.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


class _InOrderOfUse(TyperGroup):
    """Lists the commands as `COMMANDS` has them; left alone, Typer puts groups last."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - the base class's
        return [name for name in COMMANDS if name in self.commands]

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - the base class's
        """Run a command; Typer hands on pydantic's words, which are not for users."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from tuner.config.reading import plain_words

            error.message = plain_words(error.message)
            raise


class _Command(TyperCommand):
    """Shows arguments by their names alone, and takes ``--trace FILE`` for an argument TRACE.

    Left alone, Typer adds types to the names: ``<list[str]>``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - the base class's
        """Parse the words behind the name of the command."""
        for param in self.get_params(ctx):
            _convert_if_given(param)
        has_trace = any(param.metavar == "TRACE" for param in self.get_params(ctx))
        is_option = any("--trace" in param.opts for param in self.get_params(ctx))
        words = _plain_trace(args) if has_trace and not is_option else args
        takes_program = any("COMMAND" in str(p.metavar) for p in self._arguments(ctx))
        has_mark = "--" in words
        try:
            return super().parse_args(ctx, words)
        except _UsageError as error:
            is_unknown_option = hasattr(error, "possibilities")
            if is_unknown_option and takes_program and not has_mark:
                _hint_at_mark(error, ctx.command_path)
            raise

    def _arguments(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - the base class's
        return [param for param in self.get_params(ctx) if param.param_type_name == "argument"]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - the base class's
        """Write the arguments as their metavars, and the options under their titles."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            shown = param.get_help_record(ctx)
            if shown and param.param_type_name == "argument":
                sections["Arguments"].append((str(param.metavar), shown[1]))
            elif shown:
                title = getattr(param, "rich_help_panel", None) or "Options"
                sections.setdefault(title, []).append(shown)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _hint_at_mark(error: Any, command: str) -> None:  # noqa: ANN401 - of Typer's own copy of Click
    """Say in an error about an unknown option where options of a program stand."""
    example = f"{command} -- PROGRAM {error.option_name}"
    error.message = f"{error.format_message()}; if it is the program's: {example}"
    error.possibilities = None


def _plain_trace(words: list[str]) -> list[str]:
    """Return the words of a command line without the name of the option ``--trace``.

    Example:
        >>> _plain_trace(["--trace", "a.trace", "--", "--trace"])
        ['a.trace', '--', '--trace']
    """
    end = words.index("--") if "--" in words else len(words)
    kept = [word.removeprefix("--trace=") for word in words[:end] if word != "--trace"]
    return [*kept, *words[end:]]


def _convert_if_given(param: Any) -> None:  # noqa: ANN401 - of Typer's own copy of Click
    """Let an option that is not given be None without a converter.

    Typer builds one of pydantic's for every option, which takes longer than to parse the words.
    """
    convert = param.process_value
    if not param.required and not param.multiple and param.nargs == 1 and param.callback is None:
        param.process_value = lambda ctx, value: None if value is None else convert(ctx, value)


def _show_plainly(app: typer.Typer) -> None:
    """Let every command of an application, and of its groups, show its help as `_Command` does."""
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _show_plainly(group.typer_instance)


def _usual_name(name: str) -> str:
    """Return the name under which an option stands in the help; other words stay as they are."""
    return {"allocator": "allocators"}.get(name, name)


def build_app(only: str | None = None) -> typer.Typer:
    """Assemble the application from the modules in `COMMANDS`.

    Args:
        only: a word that may be a command, which then is built alone: a tenth of a second less.
    """
    app = typer.Typer(
        name="malloc-tuner",
        cls=_InOrderOfUse,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain text: brackets stay as they are, and --help is fast
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "token_normalize_func": _usual_name,
        },
    )
    app.callback(help=_HELP, epilog=exit_code_table(exit_codes()))(_options)
    for name, module in zip(COMMANDS, MODULES, strict=True):
        if only not in COMMANDS or name == only:
            found = import_module(f"tuner.cli.{module}")
            if hasattr(found, "register"):
                found.register(app)
            else:
                add_command(app, name, getattr(found, module))
    _show_plainly(app)
    return app
