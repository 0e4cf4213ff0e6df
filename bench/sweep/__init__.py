"""What is asked: a sweep file becomes trials. No torch here."""
