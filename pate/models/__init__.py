"""Models made of what was released: heads on noisy sums, students of labels, recipes that choose them, the model file."""
