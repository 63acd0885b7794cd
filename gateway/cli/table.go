package cli

// commands is the table of what polylog can do, in the order in which help lists it.
func commands() []Command {
	return []Command{
		serveCommand(),
		configCommand(),
		clusterCommand(),
		checkCommand(),
		benchCommand(),
		versionCommand(),
		helpCommand(),
	}
}
