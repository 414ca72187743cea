"""The training methods as Flower strategies and apps."""
