# Takes the prose of each command's help out of docs/commands.md: what is before usage, examples and flags.
/^## / { print; print "" }
/^```/ { prose = /text/; next }
/^(Usage|Examples|Flags|Available Commands|These flags can be)/ { prose = 0 }
prose {
	sub(/^  [0-9]+  /, "- ")          # a list of exit statuses
	gsub(/-o (json|yaml)/, "`&`")
	print
}
