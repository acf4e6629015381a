"""How fast the library is on this machine, side by side with its peers and with other commits."""
