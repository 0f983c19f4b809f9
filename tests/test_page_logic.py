"""The page's logic in Node (web/tests): what it makes of a worker's words and of the files that it keeps."""

from tinygpt.site import build


def test_the_page_does_as_its_own_tests_say():
    build.test()  # raises with what vitest printed
