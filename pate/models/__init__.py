"""Public models made from a release: heads of noisy sums, students of labels, recipes that choose, the model file."""
