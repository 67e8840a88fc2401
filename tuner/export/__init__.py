"""Write a chosen configuration in the form in which a program is deployed."""
