"""peek: see what torch.compile did with your model."""
