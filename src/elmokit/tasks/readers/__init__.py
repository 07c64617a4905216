"""One module a data format: lines to examples, and predictions back to lines. No torch."""
