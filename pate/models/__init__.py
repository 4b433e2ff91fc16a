"""What is made of a release: heads on noisy sums, students of labels, recipes that choose them, the model file."""
