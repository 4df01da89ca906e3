"""Tools of the checkout: setting up and checking. No part of the product imports them."""
