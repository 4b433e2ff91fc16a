"""Folders of images: one size, one colour, nothing from outside, nothing private said."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from pate import InvalidInputError
from pate.data import read_images
from pate.exceptions import CuratorWarning

SECRET = "jane-doe_scan.png"


def picture(path, *, size=(4, 3), mode="L", value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    pixels = np.full((height, width) if mode == "L" else (height, width, 3), value, np.uint8)
    pixels[0, 0] = 200
    Image.fromarray(pixels).save(path)


@pytest.fixture
def folder(tmp_path):
    for name, value in (("b.png", 20), ("a.png", 10), ("c.jpeg", 30)):
        picture(tmp_path / "public" / name, value=value)
    for label in ("cat", "dog"):
        for i in range(3):
            picture(tmp_path / "private" / label / f"p{i}_x.png", value=i)
    return tmp_path


def test_a_flat_folder(folder):
    (folder / "public" / ".DS_Store").write_bytes(b"hidden")
    (folder / "public" / ".hidden").mkdir()
    images = read_images(folder / "public")
    assert images.names == ("a.png", "b.png", "c.jpeg")
    assert images.X.shape == (3, 3, 4)
    assert images.X[0].tolist() == [[200, 10, 10, 10], [10] * 4, [10] * 4]
    assert images.y is None
    rows = images.rows()
    assert rows.dtype == np.float32
    assert rows[1, 1] == np.float32(20 / 255)
    assert rows.shape == (3, 12)


def test_one_sub_folder_per_class(folder):
    images = read_images(folder / "private", labelled=True, group="prefix")
    assert images.y.tolist() == ["cat"] * 3 + ["dog"] * 3
    assert images.groups.tolist() == ["p0", "p1", "p2"] * 2
    assert "p0" not in repr(images)


def test_colour(folder):
    picture(folder / "rgb" / "a.png", mode="RGB")
    assert read_images(folder / "rgb").X.shape == (1, 3, 4, 3)
    assert read_images(folder / "rgb", color="grey", convert=True).X.shape == (1, 3, 4)
    picture(folder / "rgb" / "b.png", mode="L")
    with pytest.raises(InvalidInputError, match=r"b\.png is grey, and rgb is wanted.*--color"):
        read_images(folder / "rgb")
    assert read_images(folder / "rgb", color="rgb", convert=True).X.shape == (2, 3, 4, 3)


@pytest.mark.parametrize("mode", ["RGBA", "P", "LA", "1", "CMYK"])
def test_other_colours_are_brought_to_one_only_when_asked(tmp_path, mode):
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new("RGB", (4, 3)).convert("L" if mode in ("LA", "1") else "RGB").convert(mode).save(path)
    with pytest.raises(InvalidInputError, match="neither grey nor plain colour"):
        read_images(tmp_path)
    assert read_images(tmp_path, color="grey", convert=True).X.shape == (1, 3, 4)


def test_sixteen_bits_are_refused(tmp_path):
    Image.fromarray(np.full((3, 4), 60000, np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(InvalidInputError, match="more than 8 bits"):
        read_images(tmp_path, color="grey", convert=True)


def test_sizes(folder):
    picture(folder / "public" / "d.png", size=(5, 5))
    with pytest.raises(InvalidInputError, match=r"d\.png is not 4 x 3 pixels like the others.*--resize"):
        read_images(folder / "public")
    assert read_images(folder / "public", resize=True).X.shape == (4, 3, 4)
    assert read_images(folder / "public", resize=True, size=(2, 2)).X.shape == (4, 2, 2)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda f: (f / "sub" / "x").mkdir(parents=True), "sub is a folder"),
        (lambda f: (f / "notes.txt").write_text("x"), "notes.txt is not a PNG or JPEG file by its ending"),
        (lambda f: (f / "z.png").write_text("not an image"), "z.png is not a readable PNG or JPEG image"),
        (lambda f: (f / "z.png").write_bytes((f / "a.png").read_bytes()[:50]), "z.png is not a readable"),
        (lambda f: (f / "z.png").write_bytes(b""), "z.png is not a readable"),
        (lambda f: Image.new("L", (4, 3)).save(f / "z.png", format="GIF"), "z.png is not a readable"),
        (lambda f: (f / "z.png").symlink_to(f.parent / "private" / "cat" / "p0_x.png"), "z.png is a link out of"),
        (lambda f: (f / "z.png").symlink_to("nowhere.png"), "z.png is a link out of"),
        (lambda f: (f / "z.png").symlink_to("z.png"), "z.png is"),
    ],
)
def test_what_is_no_image_is_refused(folder, make, text):
    make(folder / "public")
    with pytest.raises(InvalidInputError, match=text):
        read_images(folder / "public")


def test_links_that_stay_inside_are_fine(folder):
    (folder / "public" / "z.png").symlink_to("a.png")
    assert len(read_images(folder / "public").X) == 4


def test_a_linked_class_folder_is_refused(folder):
    (folder / "private" / "eel").symlink_to(folder / "public")
    with pytest.raises(InvalidInputError, match="'eel' is a link out of"):
        read_images(folder / "private", labelled=True)


def test_a_bomb_is_refused_by_its_header(tmp_path):
    """Dimensions are checked before a pixel is unpacked."""
    Image.new("L", (10_000, 5_001)).save(tmp_path / "a.png")
    with pytest.raises(InvalidInputError, match="more than 50,000,000 pixels"):
        read_images(tmp_path)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda p: p.write_bytes(b"\x89PNG\r\n\x1a\n secret content"),
        lambda p: p.with_suffix(".txt").write_text("x"),
        lambda p: picture(p, size=(9, 9)),
        lambda p: picture(p, mode="RGB"),
    ],
)
def test_private_file_names_are_not_said(folder, break_it):
    break_it(folder / "private" / "dog" / SECRET)
    with pytest.raises(InvalidInputError, match=r"entry 1 \(by name\) of .*dog") as caught:
        read_images(folder / "private", labelled=True, size=(4, 3), color="grey")
    assert "jane" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda p: p.write_bytes(b"\x89PNG\r\n\x1a\n secret content"),
        lambda p: picture(p, size=(9, 9)),
        lambda p: picture(p, mode="RGB"),
        lambda p: p.write_bytes(b""),
    ],
)
def test_an_odd_private_image_is_its_own_matter(folder, break_it):
    """Refused, one person's image would decide whether there is a release."""
    public = read_images(folder / "public")
    usual = read_images(folder / "private", labelled=True, group="prefix", like=public)
    break_it(folder / "private" / "cat" / SECRET)
    with pytest.warns(CuratorWarning, match=r"1 of 7 images .* set aside; the first: entry 1 \(by name\)") as said:
        images = read_images(folder / "private", labelled=True, group="prefix", like=public)
    assert "jane" not in str(said[0].message)
    assert "secret" not in str(said[0].message)
    assert (images.y[0], images.groups[0], images.X[0].any()) == (None, "jane-doe", False)
    assert (images.X[1:] == usual.X).all()
    assert (images.y[1:].tolist(), images.groups[1:].tolist()) == (usual.y.tolist(), usual.groups.tolist())


def test_an_image_of_unknown_owner_is_its_own_matter(folder):
    picture(folder / "private" / "cat" / "janedoe.png")
    images = read_images(folder / "private", labelled=True, group="prefix", like=read_images(folder / "public"))
    assert (images.y[0], images.groups.tolist()) == ("cat", [None, "p0", "p1", "p2", "p0", "p1", "p2"])


def test_group_by_prefix_needs_names_of_that_form(folder):
    picture(folder / "private" / "dog" / "janedoe.png")
    with pytest.raises(InvalidInputError, match="PERSON_rest") as caught:
        read_images(folder / "private", labelled=True, group="prefix")
    assert "jane" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="group must be one of 'prefix'"):
        read_images(folder / "private", labelled=True, group="patient")


def test_folders_that_are_not(folder):
    for path, labelled, text in (
        (folder / "none", False, "there is no folder"),
        (folder / "public" / "a.png", False, "there is no folder"),
        (folder / "private", False, "cat is a folder"),
        (folder / "public", True, "a file beside its sub-folders"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            read_images(path, labelled=labelled)
    (folder / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(InvalidInputError, match="no images in sub-folders"):
        read_images(folder / "empty", labelled=True)


def test_what_systems_leave_behind_is_no_image(folder):
    for place in ("public", "private", "private/cat"):
        for name in ("Thumbs.db", ".DS_Store", "desktop.ini"):
            (folder / place / name).write_bytes(b"left behind")
    assert len(read_images(folder / "public").X) == 3
    assert len(read_images(folder / "private", labelled=True).X) == 6
