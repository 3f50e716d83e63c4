"""What peek says of every case in tests/cases, against what torch did."""
