"""Makes a wheel for this machine out of the built project: what `pip install` of this folder calls (PEP 517)."""
import base64
import hashlib
import os
import sysconfig
import zipfile

_METADATA = """\
Metadata-Version: 2.1
Name: @distribution@
Version: @package_version@
Summary: @name@: a neural network as a library, compiled by metac @version@
Requires-Python: >=3.8
Requires-Dist: numpy
"""
_WHEEL = """\
Wheel-Version: 1.0
Generator: metac @version@
Root-Is-Purelib: false
Tag: %s
"""


def _files():
    """(name in the wheel, file) of the module, the library and its weights."""
    here = os.path.dirname(os.path.abspath(__file__))
    project = os.path.dirname(here)
    places = [os.path.join(project, folder, "lib@name@.so") for folder in ("lib", "build")]
    library = next(filter(os.path.exists, places), None)
    if library is None:
        raise FileNotFoundError("neither %s nor %s is there: build the project first" % tuple(places))
    yield "@name@/__init__.py", os.path.join(here, "@name@", "__init__.py")
    yield "@name@/lib@name@.so", library
    if "@embed_weights@" == "OFF":
        yield "@name@/@name@.weights", os.path.join(project, "@name@.weights")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    tag = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    info, record = "@wheel_name@-@package_version@.dist-info/", []
    name = "@wheel_name@-@package_version@-%s.whl" % tag
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(path, source):
            digest, size = hashlib.sha256(), 0
            with wheel.open(zipfile.ZipInfo(path), "w", force_zip64=True) as member:
                for piece in source:
                    member.write(piece)
                    digest.update(piece)
                    size += len(piece)
            text = base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
            record.append("%s,sha256=%s,%d\n" % (path, text, size))

        for path, file in _files():
            with open(file, "rb") as opened:
                add(path, iter(lambda: opened.read(1 << 20), b""))
        add(info + "METADATA", [_METADATA.encode()])
        add(info + "WHEEL", [(_WHEEL % tag).encode()])
        wheel.writestr(info + "RECORD", "".join(record) + info + "RECORD,,\n")
    return name
