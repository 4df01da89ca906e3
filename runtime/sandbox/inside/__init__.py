"""What runs on the far side of the wall: started as programs of their own, never imported by the worker to be used."""
