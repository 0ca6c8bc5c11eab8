"""Imports every module of a package: `imports.py PACKAGE`. That each is compiled says nothing of the names that it uses."""

import importlib
import pkgutil
import sys

package = importlib.import_module(sys.argv[1])
modules = [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
for module in modules:
    importlib.import_module(module)
print(f"{sys.argv[1]}: all of its {len(modules)} modules are imported")
