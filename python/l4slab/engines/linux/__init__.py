"""The engine `linux`: the same run on a real Linux kernel, booted in virtual time as User Mode Linux."""
