"""How the admin API speaks HTTP: from the resources of `trunkline.server.admin` to routing, authorisation, documents and errors."""
