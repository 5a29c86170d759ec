# SPDX-License-Identifier: Apache-2.0
"""commands.py MARKDOWN [FOLDER] - takes the commands out of a document, one a line: "LINE<tab>COMMAND".

Commands are all lines of blocks fenced as sh, but for empty ones; a comment behind two blanks goes. Blocks with a name behind their
language (```bash job.sh) are files, written into FOLDER. Every other fenced block needs a language that is none of commands. Of indented
blocks, in documents that have such, lines that begin with make, bench/, scripts/ or a $ are told as "LINE<tab>look<tab>COMMAND".
"""
import pathlib
import re
import sys

PLAIN = {"bash", "c", "python", "text", "cmake"}


def read(path, folder):
    block = name = None
    lines = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = re.match(r"```(\S*) ?(\S*)$", line)
        if block is None and fence:
            block, name = fence.groups()
            lines = []
            if block not in PLAIN | {"sh"}:
                sys.exit(f"{path}:{number}: a block of {block or 'no language'}; there are sh and {', '.join(sorted(PLAIN))}")
        elif fence:
            if name and folder:
                (folder / name).write_text("\n".join(lines) + "\n")
                (folder / name).chmod(0o755)
            block = None
        elif block is not None:
            lines.append(line)
            command = re.sub(r"(^|\s\s+)# .*", "", line).strip()
            if block == "sh" and command:
                print(number, command, sep="\t")
        elif re.match(r"    (\$ |make\b|bench/|scripts/)", line):
            print(number, "look", re.sub(r"\s\s+.*", "", line.strip().removeprefix("$ ")), sep="\t")
    if block is not None:
        sys.exit(f"{path}: the last block has no end")


read(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None)
