"""From the two YAML files to core objects, with every mistake placed and answered."""
