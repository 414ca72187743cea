"""What tests share: oracles, small federations, commands, browsers."""
