"""Names and paths that users give, and what the file system says about them, as sentences.

Names of experiments, flows, links and the like become names of files and folders.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from l4slab.base.errors import InputError, L4slabError, StoreError

# Bytes. A file's name may have 255, and some are made of two names and the id of a run.
LONGEST_NAME = 100
# A Path keeps one of the two slashes.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|://")
# Errors of the disk; all others are about the path that was given.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_REASONS = {
    errno.EISDIR: "is a folder where l4slab needs a file",
    errno.ENOTDIR: "is a file, or below a file, where l4slab needs a folder",
    errno.EEXIST: "is a file where l4slab needs a folder",
    errno.ENAMETOOLONG: "is too long for a path",
    errno.EACCES: "may not be used by this user",
    errno.EPERM: "may not be used by this user",
    errno.EROFS: "is on a disk that is read-only",
    errno.ENOENT: "is in a folder that does not exist",
}


def name_mistake(name: str, reserved: str = "") -> str | None:
    """The mistake in a name, as a text that continues "has a name", or None."""
    if not name.strip():
        return "without a letter or a digit; use letters, digits, _ and -"
    if not name.isprintable():
        return "with a control character; use letters, digits, _ and -"
    if {*reserved} & {*name}:
        return f"with one of the characters {' '.join(reserved)}; use letters, digits, _ and -"
    if (length := len(name.encode(errors="replace"))) > LONGEST_NAME:
        return f"of {length} bytes; use at most {LONGEST_NAME}"
    return None


def usable(path: Path | str) -> Path:
    """`path`, whether or not something is there. Raises InputError where the file system cannot have it."""
    if _URL.match(str(path)):
        raise InputError("is a URL, and this is to be a path of this machine; give one", file=path)
    try:
        os.fspath(path).encode()
        Path(path).stat()
    except UnicodeEncodeError:
        raise InputError("is a path that is not UTF-8; rename it", file=ascii(str(path))) from None
    except (FileNotFoundError, NotADirectoryError):
        pass
    except ValueError:
        raise InputError("is a path with a NUL character; remove it", file=path) from None
    except OSError as error:
        raise InputError(f"{_reason(error)}; give another path", file=path) from None
    return Path(path)


def require_folder() -> None:
    """Raises InputError where the current folder was deleted."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise InputError("the current folder was deleted; change to one that exists, such as: cd ~") from None


def told(error: OSError, folder: Path | str) -> L4slabError:
    """The error to raise if results cannot be stored in `folder`."""
    if error.errno in _DISK:
        kept = "finished runs are kept: free some space and give the same command again"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StoreError(f"{folder}: the disk is full; {kept}")
        if error.errno == errno.EFBIG:
            kept = "finished runs are kept: raise the limit of the shell (ulimit -f) and give the same command again"
        return StoreError(f"{folder}: {error.strerror}; {kept}")
    place = error.filename2 or error.filename or folder
    # What is missing cannot be moved.
    remedy = "give another folder" if error.errno == errno.ENOENT else "move it away, or give another folder"
    return InputError(f"{_reason(error)}; {remedy}", file=place)


def unwritable(file: Path, error: OSError) -> InputError:
    """The message about a file of the user's choice that cannot be written."""
    reason = error.strerror or str(error)
    return InputError(f"cannot be written ({reason}); give a file in a folder that you may write", file=file)


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or f"cannot be used ({error.strerror or error})"
