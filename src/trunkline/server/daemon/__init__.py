"""Our providers, served to products that speak the extension daemon protocol."""
