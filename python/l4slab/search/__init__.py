"""Search: scenarios from the table `[search]` of an experiment file, the worst of them, and small files of them."""
