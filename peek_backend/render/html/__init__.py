"""The interactive page: one offline HTML file that shows a capture.

Comes in: a CaptureRecord. Goes out: HTML text. Pure: nothing is read but the page's own modules beside this file.

* ``payload``   a record as columns and shared strings, compressed
* ``overview``  the same facts for people, as plain HTML that works without JavaScript
* ``edits``     a diff of two captures as the page marks it; ``from_diff`` makes it of a verdict
* ``bundler``   the page's ES modules as one script
* ``page``      all of it in one file with a Content-Security-Policy
* ``*.js``, ``page.css``  the page itself: ``layers`` → ``tree`` → ``layout`` → ``canvas`` → views → ``main``
"""

from .edits import PageDiff, PageEdit
from .page import notebook_bundle, page

__all__ = ["PageDiff", "PageEdit", "notebook_bundle", "page"]
