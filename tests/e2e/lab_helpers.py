"""What a person does in a lab."""

from playwright.sync_api import Page


def opened(open_page, name: str) -> Page:
    """A lab, of the site that the play page was opened from."""
    page = open_page()
    page.goto(page.url.split("#")[0] + f"lab/#{name}")
    return page


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def type_text(page: Page, text: str) -> None:
    """In place of what the editor shows."""
    page.locator("[data-editor] .cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)
