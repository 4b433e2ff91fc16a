"""What is learnt of public images on a CUDA device is used like what is learnt on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pate.models.students import ImageStudent
from pate.representations import FromModule, load
from pate.representations.images import Scattering, SelfSupervised

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.long,
]
RNG = np.random.default_rng(0)
TRUTH = np.arange(200) % 2
IMAGES = (RNG.uniform(size=(200, 12, 12)) * 0.2).astype(np.float32)
IMAGES[TRUTH == 1, 3:9, 3:9] += 0.7


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_student_learns_on_a_gpu_and_predicts_the_same_on_the_cpu(precision, tmp_path):
    some = np.where(np.arange(200) < 150, TRUTH, -1)
    student = ImageStudent(epochs=10, batch_size=20, random_state=0, device="cuda", precision=precision)
    student.fit(IMAGES, some)
    assert float((student.predict(IMAGES) == TRUTH).mean()) > 0.9
    student.save(tmp_path / "student")
    again = ImageStudent.load(tmp_path / "student")
    again.device = "cpu"
    np.testing.assert_allclose(again.predict_proba(IMAGES), student.predict_proba(IMAGES), atol=5e-3)


@pytest.mark.parametrize("objective", ["simclr", "vicreg"])
def test_a_network_learns_on_a_gpu_and_its_vectors_are_those_on_the_cpu(objective, tmp_path):
    there = SelfSupervised(
        n_features=8, width=8, epochs=3, batch_size=32, objective=objective, device="cuda", precision="float32"
    ).fit(IMAGES)
    assert np.isfinite(there.losses_).all()
    there.save(tmp_path / "rep")
    here = load(tmp_path / "rep")
    here.device = "cpu"
    here._build()
    np.testing.assert_allclose(here.transform(IMAGES), there.transform(IMAGES), atol=5e-3)


def test_scattering_is_the_cpus():
    here, there = (Scattering(n_angles=4, device=device).fit(IMAGES).transform(IMAGES) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(there, here, atol=1e-4 * np.abs(here).max())


def test_a_brought_module_gives_the_same_vector_at_any_place():
    module = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 5))
    rows = IMAGES.reshape(200, 144)
    options = {"provenance": "drawn", "input_shape": (1, 12, 12)}
    single = FromModule(module, device="cuda", one_by_one=True, **options).fit(rows)
    np.testing.assert_array_equal(single.transform(rows)[100:], single.transform(rows[100:]))
    here, there = (FromModule(module, device=d, **options).fit(rows).transform(rows) for d in ("cpu", "cuda"))
    np.testing.assert_allclose(there, here, atol=1e-5)
