"""The paper's synthetic study, and ours: each a function to numbers and one to a picture."""
