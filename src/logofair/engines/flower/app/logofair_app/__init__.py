"""The Flower app: everything lies in the installed package."""
