"""`stepcut completion`: a script by which a shell completes commands, options and their values; made of the parsers."""

import argparse

from stepcut.cli.parser import COMMANDS, make_parser, summary

BASH = """_stepcut() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} last=${{COMP_WORDS[COMP_CWORD-1]}} words=
  if [ "$COMP_CWORD" = 1 ]; then words="{commands}"
  else
    case $command:$last in
{values}
    esac
    case $command:$word in
{options}
    esac
  fi
  [ -z "$words" ] || COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -o bashdefault -F _stepcut stepcut"""

ZSH = "autoload -U +X bashcompinit && bashcompinit"
"""Lets zsh read what is written for bash."""


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    if args.shell == "zsh":
        print(ZSH)
    print(fish() if args.shell == "fish" else bash())
    return 0


def actions() -> dict[str, list[argparse.Action]]:
    """Command -> everything that its parser understands."""
    return {name: make_parser(name)._actions for name in COMMANDS}


def fish() -> str:
    """The script for fish, which also shows what each option is for."""
    first = "complete -c stepcut -n __fish_use_subcommand -f -a"
    lines = [f"{first} {name} -d {_quote(summary(name))}" for name in COMMANDS]
    for name, each in actions().items():
        for action in each:
            words = [
                f"{'-l' if word[:2] == '--' else '-s'} {word.lstrip('-')}"
                for word in action.option_strings
            ]
            if action.choices is not None:
                words.append(
                    f"{'-x ' if words else ''}-a {_quote(' '.join(map(str, action.choices)))}"
                )
            elif words and action.nargs != 0:
                words.append("-r")
            if words:
                about = f"-d {_quote(action.help or '')}"
                lines.append(
                    f"complete -c stepcut -n '__fish_seen_subcommand_from {name}' {' '.join(words)} {about}"
                )
    return "\n".join(lines)


def bash() -> str:
    """The script for bash: of each command its options after a dash, and the values of those that have a list."""
    options, values = [], []
    for name, each in actions().items():
        words = " ".join(word for action in each for word in action.option_strings)
        options.append(f'      {name}:-*) words="{words}" ;;')
        for action in each:
            if action.choices is not None:
                before = "|".join(f"{name}:{word}" for word in action.option_strings or [name])
                values.append(f'      {before}) words="{" ".join(map(str, action.choices))}" ;;')
    return BASH.format(
        commands=" ".join([*COMMANDS, "help"]), options="\n".join(options), values="\n".join(values)
    )


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
