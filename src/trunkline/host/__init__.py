"""The extension host: what runs other people's code, and what that may reach."""
