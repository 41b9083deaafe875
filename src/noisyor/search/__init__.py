"""Find a start in the data: covers, factors, patches of images, counts."""
