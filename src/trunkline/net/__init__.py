"""The way out: resolve, judge, dial. Everyone who needs HTTP gets it from here."""
