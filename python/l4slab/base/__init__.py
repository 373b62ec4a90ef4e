"""What every other part uses: errors, units, the columns of the tables, what the package ships."""
