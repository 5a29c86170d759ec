# SPDX-License-Identifier: Apache-2.0
"""The binding says what ddl/ddl.h says: enums, structs, prototypes, macros. Sizes and offsets are the C compiler's word."""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import ranks

SOURCE = os.path.join(os.path.dirname(__file__), "..", "..")
INCLUDES = [os.path.join(SOURCE, "include"), os.path.join(ranks.BUILD, "include")]

import ddl  # noqa: E402
from ddl import _library as binding  # noqa: E402


def header():
    """ddl.h and error.h without comments and preprocessor lines."""
    text = ""
    for name in ("error.h", "ddl.h"):
        with open(os.path.join(INCLUDES[0], "ddl", name), encoding="utf-8") as f:
            text += f.read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"#.*?(?<!\\)\n", "\n", text, flags=re.S)
    return text


def prototypes(text):
    """name: [kind of the result, kinds of the arguments] as words of C."""
    text = re.sub(r"(enum|struct)\s+\w+\s*\{[^}]*\};", " ", text)
    found = {}
    for result, name, arguments in re.findall(r"([\w\s\*]+?)\b(ddl_\w+)\s*\(([^()]*)\)\s*;", text):
        types = [] if arguments.strip() == "void" else [kind_of(a) for a in arguments.split(",")]
        found[name] = [kind_of(result + " x"), types]
    return found


def kind_of(declaration):
    """A C declaration as the ctypes type that the binding should have."""
    words = re.sub(r"\bconst\b", "", declaration)
    stars = words.count("*")
    words = words.replace("*", " ").split()
    base = " ".join(words[:-1])
    if stars == 0:
        if base.startswith("enum "):
            return ctypes.c_int
        return {"void": None, "int": ctypes.c_int, "size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32}[base]
    if stars == 2:
        return ctypes.POINTER(ctypes.c_void_p)
    if base in ("struct ddl_comm", "struct ddl_request", "void"):
        return ctypes.c_void_p
    if base == "char":
        return ctypes.c_char_p
    if base.startswith("struct "):
        return ctypes.POINTER(binding.STRUCTS[base[len("struct ") :]])
    return ctypes.POINTER({"int": ctypes.c_int, "size_t": ctypes.c_size_t, "float": ctypes.c_float}[base])


def compiled(statements):
    """The lines that a C program with these statements prints."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "x.c"), os.path.join(folder, "x")
        with open(source, "w", encoding="utf-8") as f:
            f.write(
                "#include <stdio.h>\n#include <stddef.h>\n#include <ddl/ddl.h>\nint main(void)\n{\n%s\n}\n" % "\n".join(statements)
            )
        compiler = shutil.which("cc") or shutil.which("gcc")
        flags = [f"-I{folder}" for folder in INCLUDES]
        subprocess.run([compiler, *flags, source, "-o", program], check=True)
        return subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


class TheBindingFollowsTheHeader(unittest.TestCase):
    maxDiff = None

    def test_every_enum_has_the_header_s_members_and_values(self):
        names = {}
        for name, body in re.findall(r"enum (\w+)\s*\{([^}]*)\}", header()):
            names[name] = {k: int(v) for k, v in re.findall(r"(\w+)\s*=\s*(\d+)", body)}
        self.assertEqual(names, {n: {p + m.name: m.value for m in e} for n, (e, p) in binding.ENUMS.items()})

    def test_every_struct_has_the_header_s_fields_in_their_order(self):
        found = {}
        for name, body in re.findall(r"struct (\w+)\s*\{([^}]*)\}", header()):
            body = re.sub(r"\(\*(\w+)\)\([^;]*", r"\1", body)  # a pointer to a function
            found[name] = [re.search(r"(\w+)(\[\w+\])?$", field.strip()).group(1) for field in body.split(";") if field.strip()]
        self.assertEqual(found, {n: [f[0] for f in s._fields_] for n, s in binding.STRUCTS.items()})

    def test_sizes_and_offsets_are_the_compiler_s(self):
        ask, have = [], []
        for name, struct in binding.STRUCTS.items():
            ask.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            have.append(f"{name} {ctypes.sizeof(struct)}")
            for field in struct._fields_:
                at = getattr(struct, field[0])
                ask.append(
                    f'printf("{name}.{field[0]} %zu %zu\\n", offsetof(struct {name}, {field[0]}), '
                    f"sizeof(((struct {name} *)0)->{field[0]}));"
                )
                have.append(f"{name}.{field[0]} {at.offset} {at.size}")
        for macro, value in (
            ("ERROR_TEXT_SIZE", binding.ERROR_TEXT_SIZE),
            ("STATS_LEVELS", binding.STATS_LEVELS),
            ("STATS_RAILS", binding.STATS_RAILS),
        ):
            ask.append(f'printf("{macro} %d\\n", DDL_{macro});')
            have.append(f"{macro} {value}")
        self.assertEqual(compiled(ask), have)

    def test_defaults_of_options_are_the_header_s_initialisers(self):
        options = ddl.options()
        fields = [f for f, kind in binding.CRequestOptions._fields_ if kind is not ctypes.c_char_p]
        ask = ["struct ddl_request_options o = DDL_REQUEST_OPTIONS_INIT;"]
        ask += [f'printf("{f} %lld\\n", (long long)o.{f});' for f in fields]
        self.assertEqual(compiled(ask), [f"{f} {getattr(options, f)}" for f in fields])

    def test_every_function_has_the_header_s_prototype(self):
        found = prototypes(header())
        self.assertEqual(sorted(found), sorted(binding.PROTOTYPES))
        for name, (result, arguments) in binding.PROTOTYPES.items():
            with self.subTest(name):
                self.assertEqual(found[name], [result, arguments])

    def test_element_sizes_are_the_library_s(self):
        self.assertEqual([binding.lib.ddl_type_size(t) for t in ddl.Type], [t.size for t in ddl.Type])


class OneRelease(unittest.TestCase):
    def test_package_library_and_project_have_one_version(self):
        with open(os.path.join(SOURCE, "python", "pyproject.toml"), encoding="utf-8") as f:
            project = re.search(r'^version = "(.*)"', f.read(), re.M).group(1)
        self.assertEqual([project, ddl.__version__], [ddl.library_version()] * 2)

    def test_a_library_of_another_version_is_refused_with_a_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            source, library = os.path.join(folder, "x.c"), os.path.join(folder, "libddl.so.0")
            with open(source, "w", encoding="utf-8") as f:
                f.write('const char *ddl_version(void) { return "99.1.0"; }\nvoid ddl_comm_create(void) {}\n')
            subprocess.run([shutil.which("cc") or "gcc", "-shared", "-fPIC", source, "-o", library], check=True)
            output = ranks.launch(["python3", "-c", "import ddl"], good=False, DDL_LIBRARY=library)
            self.assertIn("is version 99.1.0, and the Python package ddl is version", output)

    def test_a_missing_library_is_named_in_a_sentence(self):
        output = ranks.launch(["python3", "-c", "import ddl"], good=False, DDL_LIBRARY="/nowhere/libddl.so.0")
        self.assertIn("name the library in DDL_LIBRARY", output)


if __name__ == "__main__":
    ranks.main({})
