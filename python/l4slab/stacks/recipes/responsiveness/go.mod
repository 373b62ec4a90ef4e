module responsiveness

go 1.24.0

require (
	golang.org/x/net v0.50.0
	golang.org/x/sys v0.41.0
)

require golang.org/x/text v0.34.0 // indirect
