"""Write the reports: ``report.html``, which may be published, and ``sensitive.html``, which may not.

Each is one HTML file that asks nothing of the network and runs no script: styles and pictures are inline, and a
content policy in its head forbids the rest. The public one is made from a :class:`pate.report.result.Result` alone.
"""

import lazy_loader

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "render_markdown",
    "render_report",
    "render_sensitive_report",
    "write_report",
    "write_sensitive_report",
]
